(function_definition declarator: (function_declarator declarator: (_) @name)) @function
(function_definition declarator: (pointer_declarator
  declarator: (function_declarator declarator: (_) @name))) @function
(function_definition declarator: (pointer_declarator
  declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))) @function
(declaration declarator: (function_declarator declarator: (_) @name)) @declaration
(declaration declarator: (pointer_declarator
  declarator: (function_declarator declarator: (_) @name))) @declaration
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @union
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @type
(type_definition declarator: (function_declarator
  declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @type
(preproc_function_def name: (_) @name) @macro
(preproc_def name: (_) @name) @variable
