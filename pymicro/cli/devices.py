"""`pymicro devices`: this machine's, the catalogue, or one card in full."""

from __future__ import annotations

import click


@click.command("devices", short_help="This machine's devices, the catalogue, or one card.")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="every card of the catalogue")
@click.option("--spec", metavar="FILE", help="add or override cards from this TOML file")
def command(name: str | None, everything: bool, spec: str | None) -> int:
    """List this machine's devices, all cards of the catalogue, or one card in full.

    NAME is what people call a card: H100, 4090, "RTX A6000", l40s.
    """
    import pymicro.report.device_tables as device_tables
    from pymicro.devices.catalogue import catalogue

    specs = catalogue(spec)
    if name is not None:
        from pymicro.devices.finder import find

        match = find(name, specs)
        device_tables.one(match.spec, match.note)
    elif everything:
        device_tables.many(specs.values())
    else:
        from pymicro.devices.cpu import describe_cpu
        from pymicro.devices.here import inventory

        view, gpus = inventory(specs=specs)
        for gpu, identified in gpus:
            device_tables.local(gpu, identified)
        if not gpus:
            click.echo(f"no NVIDIA GPU: {view.reason or 'NVML shows none'}")
        device_tables.one(describe_cpu())
    return 0
