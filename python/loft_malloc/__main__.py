from loft_malloc.main import main

main()
