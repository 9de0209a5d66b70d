set +m +H; PS1= PS2= HISTFILE=
exec 2>&ERR ERR>&-
_go() { _busy=1 _after=$3; printf 'count %d\n' $((++_n)) >&SAID; eval "$1"; eval "$2" </dev/null SAID>&-; _status=$?; eval "$_after"; _busy=; printf 'status %d\ndone\n' $_status >&SAID; }
_stopped() { if [ "$_busy" ]; then _busy=; eval "$_after"; printf 'status 130\ndone\n' >&SAID; fi; }
