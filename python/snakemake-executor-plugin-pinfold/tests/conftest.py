pytest_plugins = ["pinfold_daemon"]
