"""Programs of packages that the papers' figures name, for `make papers` alone (tools/setup.sh).

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
    # Of SPECspeed Integer 2017, with inputs of our own: its compiler, encoder, packer and, a newer
    # one there, player of chess. Its Perl is in PROGRAMS.
    Program(
        "gcc",
        """
        awk -v count=80 -f "$SOURCES/functions.awk" >functions.c
        gcc -O2 -S functions.c
        grep -q "^all:" functions.s
        """,
    ),
    Program(
        "x264",
        """
        perl "$SOURCES/film.pl" 352 288 60 >film.y4m
        x264 --no-progress --threads 1 --demuxer y4m -o film.264 film.y4m 2>&1 |
          grep "encoded 60 frames" >rate.txt
        """,
    ),
    Program(
        "xz",
        """
        awk -v count=15000 -f "$SOURCES/lines.awk" >lines.txt
        xz -6 -T1 --keep lines.txt
        xz -dc lines.txt.xz | cmp - lines.txt
        """,
    ),
    Program(
        "sjeng",
        """
        bash "$SOURCES/chess.sh" 9 >game.txt 2>&1
        grep -q "^Nodes: 361178 " game.txt
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
