; Beside c.scm.
(function_definition declarator: (reference_declarator
  (function_declarator declarator: (_) @name))) @function
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(declaration declarator: (reference_declarator
  (function_declarator declarator: (_) @name))) @declaration
(field_declaration declarator: (function_declarator declarator: (_) @name)) @declaration
(field_declaration declarator: (pointer_declarator
  declarator: (function_declarator declarator: (_) @name))) @declaration
(field_declaration declarator: (reference_declarator
  (function_declarator declarator: (_) @name))) @declaration
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @type
