"""Which software carries code for which chip: pure rules, and tables with their sources.

Nothing here looks at a machine; `probes` does that and judges with these rules.
"""
