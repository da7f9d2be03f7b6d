(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name) @struct
(enum_item name: (_) @name) @enum
(union_item name: (_) @name) @union
(trait_item name: (_) @name) @trait
(impl_item type: (_) @name) @in.impl
(mod_item name: (_) @name body: (_)) @module
(type_item name: (_) @name) @type
(macro_definition name: (_) @name) @macro
(const_item name: (_) @name) @variable
(static_item name: (_) @name) @variable
