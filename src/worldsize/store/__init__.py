"""The store of runs: `<home>/runs/<run id>`, or a compute's own runs_dir with a link to it from there.

runs           new ids and run directories: create_run, discard_run, objects_dir, home_dir
find           list_ids, find_run_paths
summaries      what `list` shows of each run
content_store  a directory of fetched data
"""
