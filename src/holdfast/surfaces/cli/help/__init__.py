"""The words of the command line, and how help shows them."""
