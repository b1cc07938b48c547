from loft.main import main

main()
