"""What a bare machine lacks: tools, container engine, images, Pulumi plugins.

Invoked as `python3 -m toolchain`, never imported by the program that Pulumi runs.
"""
