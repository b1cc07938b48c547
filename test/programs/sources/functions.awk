# So many functions in C, no two alike, and one that calls them all.
BEGIN {
  for (i = 0; i < count; i++) {
    printf "static int f%d(int a, int *p) {\n  int s = a * %d;\n", i, i * 7 + 3
    printf "  for (int k = 0; k < (a & 15); k++) {\n    s ^= p[k] + (s << %d);\n", i % 13 + 1
    printf "    if (s %% %d == 3) {\n      s += p[s & 7] * %d;\n      continue;\n    }\n", i % 11 + 5, i + 2
    printf "    switch (s & 7) {\n      case 0: s += %d; break;\n      case 1: s -= p[1]; break;\n", i * 5
    printf "      case 5: p[2] = s; break;\n      default: s = s * 3 + %d;\n    }\n  }\n  return s;\n}\n", i
  }
  print "int all(int a, int *p) {\n  int s = 0;"
  for (i = 0; i < count; i++) printf "  s += f%d(s + a, p);\n", i
  print "  return s;\n}"
}
