"""Which GPUs there are, what they can do on paper, and which ones this machine has.

Importing it loads only the standard library; NVML and the CUDA driver are asked on use.
"""
