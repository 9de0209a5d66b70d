set +m +H; PS1= PS2= HISTFILE=
exec 2>&3 3>&-
_go() { _busy=1 _after=$3; printf 'count %d\n' $((++_n)) >&4; eval "$1"; eval "$2" </dev/null 4>&-; _status=$?; eval "$_after"; _busy=; printf 'status %d\ndone\n' $_status >&4; }
_stopped() { if [ "$_busy" ]; then _busy=; eval "$_after"; printf 'status 130\ndone\n' >&4; fi; }
