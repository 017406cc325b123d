from pyworker.cli import main

main()
