"""Collectives over all devices of a host: one process a device, through torch.distributed.

`operations` says what is timed, `job` what is wanted, `rank` is the program of one process,
`ranks` starts as many as there are devices, `records` makes results of what rank 0 wrote.
"""
