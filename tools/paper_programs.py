"""Programs of packages that BatchIt's figures name, for `make papers` alone (tools/setup.sh)."""

from programs import PROGRAMS, Program

# Pigeons that do not fit: unsatisfiable, and known to take a solver long.
Z3 = """
pigeons=7
{
  for p in $(seq $pigeons); do
    for h in $(seq $((pigeons - 1))); do echo "(declare-const p${p}h$h Bool)"; done
    echo "(assert (or $(seq -f "p${p}h%g" -s ' ' $((pigeons - 1)))))"
  done
  for h in $(seq $((pigeons - 1))); do
    for p in $(seq $pigeons); do
      for q in $(seq $((p + 1)) $pigeons); do echo "(assert (not (and p${p}h$h p${q}h$h)))"; done
    done
  done
  echo '(check-sat)'
} > pigeons.smt2
exec z3 pigeons.smt2
"""

# Pages of text and curves, drawn and thrown away.
GHOSTSCRIPT = r"""
cat > pages.ps <<'END'
%!PS
/Times-Roman findfont 9 scalefont setfont
1 1 4 {
  /page exch def
  1 1 60 {
    /line exch def
    40 line 12 mul moveto (Page and line, curve and fill, again and again: ) show
    page line mul 20 string cvs show
    newpath 300 line 12 mul moveto 350 page 90 mul 400 line 5 mul 550 line 12 mul curveto stroke
  } for
  showpage
} for
END
exec gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pngalpha -r100 -sOutputFile=/dev/null pages.ps
"""

ROCKSDB = """
exec db_bench --db="$PWD/db" --benchmarks=fillrandom,readrandom --num=40000 --threads=2
"""

PAPER_PROGRAMS = (
    *PROGRAMS,
    Program("z3", Z3),
    Program("ghostscript", GHOSTSCRIPT),
    Program("rocksdb", ROCKSDB),
)
