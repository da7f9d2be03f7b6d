(class_definition name: (_) @name) @class
(function_definition name: (_) @name) @function
(type_alias_statement left: (_) @name) @type
(module (expression_statement (assignment left: (identifier) @name) @variable))
(class_definition body:
  (block (expression_statement (assignment left: (identifier) @name) @variable)))
