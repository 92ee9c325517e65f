"""The instruction set: data types, operators, activation functions, targets, and one declaration an instruction."""
