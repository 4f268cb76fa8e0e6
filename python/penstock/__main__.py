from penstock._program import main

main()
