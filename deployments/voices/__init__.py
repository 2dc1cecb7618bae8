"""Voice folders in the layout that ModelScope publishes: find, verify, download, describe."""
