#include <stdio.h>
#include <string.h>

int main(int count, char** words) { return count != 1 || puts(strdup(words[0])) < 0; }
