# A game of chess from its first position to a depth of $1: what the search says, and its move. The
# program takes a line that waits for it as a wish to stop, so it is asked to quit when it has moved.
coproc chess { /usr/games/sjeng; }
printf '%s\n' xboard new 'level 40 600 0' 'time 3600000' "sd $1" go >&"${chess[1]}"
while read -r line <&"${chess[0]}"; do
  echo "$line"
  case $line in "move "*) break ;; esac
done
echo quit >&"${chess[1]}"
wait
