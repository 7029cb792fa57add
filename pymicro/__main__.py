from pymicro.cli import main

main()
