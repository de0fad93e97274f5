"""A month of nights over real releases of two libraries: do bugs appear and go with the right release?"""
