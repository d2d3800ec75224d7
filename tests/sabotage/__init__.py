"""Each guard is taken out of a copy of the tree, one by one: tests have to fail then, or there is no guard."""
