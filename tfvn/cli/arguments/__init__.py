"""The arguments and help texts of each command.

The `tfvn` command runs these files before it imports TensorFlow, so that help and errors in
the arguments appear at once. They import nothing but the standard library and
`_tfvn_command`. Each has `HELP`, `DESCRIPTION`, `EXAMPLES` and `add_arguments(parser)`.
"""
