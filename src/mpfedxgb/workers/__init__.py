"""Row work on an organisation's own Dask cluster: its workers hold the rows, the protocol stays in the role."""
