"""Loads pymicro's own compiled module from its file."""

from importlib.util import module_from_spec, spec_from_file_location


def probe(tell, path):
    tell(installed=True)
    tell.step("import")
    spec = spec_from_file_location("pymicro._native", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    tell.fact("cpu_features", lambda: sorted(module.cpu_features()))
