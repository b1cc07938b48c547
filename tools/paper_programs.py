"""Programs of packages that BatchIt's figures name, for `make papers` alone (tools/setup.sh).

What they read is there, or made by little else: the time is to be theirs. Each is
asked whether it did its work.
"""

from programs import PROGRAMS, ROOT, Program

PAPER_PROGRAMS = (
    *PROGRAMS,
    Program("z3", '[ "$(z3 "$SOURCES/factors.smt2")" = sat ]'),
    # Pages become a file of the kind that the suite's ghostscript reads, and that one is drawn.
    Program(
        "ghostscript",
        """
        gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=pages.pdf "$SOURCES/pages.ps"
        gs -q -dBATCH -dNOPAUSE -sDEVICE=ppmraw -r30 -sOutputFile=page%d.ppm pages.pdf
        [ "$(ls page*.ppm | wc -l)" = 40 ]
        """,
    ),
    Program(
        "rocksdb",
        """
        db_bench --db="$PWD/db" --benchmarks=fillrandom,readrandom --num=40000 --threads=2 \\
          >rates.txt 2>&1
        grep -q "^readrandom .* of 40000 found" rates.txt
        """,
    ),
    # tools/espresso.sh builds it.
    Program(
        "espresso",
        f"""
        awk -v bits=5 -f "$SOURCES/product.awk" >product.pla
        "{ROOT}/build/espresso/espresso" product.pla >minimal.pla
        [ "$(wc -l <minimal.pla)" -lt 500 ]
        """,
    ),
)
