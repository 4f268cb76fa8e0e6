#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("penstock " PEN_VERSION);
        return 0;
    }
    fputs("usage: penstock --version\n", stderr);
    return 2;
}
