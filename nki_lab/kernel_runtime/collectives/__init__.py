"""`nki.collectives`: exchange between the ranks of a launch, and synchronization of the cores of one."""
