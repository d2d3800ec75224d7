"""Everything that others write, read from any bytes: what is refused is refused in the documented way, and soon.

`targets` has a function for each reader, `corpus/<target>/` what is read again with each run of the tests. `make fuzz` looks
for more, led by what code each input reaches (atheris).
"""
