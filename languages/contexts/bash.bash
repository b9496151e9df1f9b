# SPDX-License-Identifier: MIT
#
# A Bash that is kept between cells of code.
#
# A cell is what `source` would run: variables, functions, aliases, options, traps, the working directory, open
# descriptors and background jobs stay, $? too. Bash has no values; a cell is over well where its last command ended
# with 0, and else has the error "exit status".
#
# Interrupts. The trap of SIGINT says `return`, which leaves one function or sourced file; where there are more of
# them, a trap of DEBUG under extdebug does so before any other command runs. A cell has a `source` around it for
# the last `return` to leave. Between cells SIGINT is ignored.
#
# Exits. `exit`, set -e, an unset variable under set -u and ${x?} end the cell and not the shell: the trap of EXIT
# writes down the state, and this file is executed again in the same process and takes it up. What Bash cannot write
# down is lost by then: the table of jobs (the processes go on), $!, the stack of pushd, and variables that are
# local to a function become global. A trap of the code's for EXIT runs first, in a subshell, and once, as at the
# end of a script. After `exit 0` the cell is well.
#
# Names. What Bash says of an error begins with the name that `source` was given, and has a folder before it unless the
# file is in the working directory. So a cell is sourced in the folder of this file, by a file of its name, <cell N>, and
# goes back to where it was before anything of the code's runs. Where there is no sure way back, or no such file can be
# made, its name is /dev/fd/254. No process is started for all that: where the code has left room for none, Bash exits.
#
# So EXIT and INT belong to this file, and `trap` is a function that keeps what the code wants for them apart.

builtin trap '' INT
# No function may be called `trap` where POSIX is asked for: that comes when all is there.
__nsbox_posix=''
if [[ :$SHELLOPTS: == *:posix:* ]]; then
	__nsbox_posix=${POSIXLY_CORRECT:-y}
	builtin set +o posix
fi
__nsbox_driver=${BASH_SOURCE[0]} __nsbox_cell='' __nsbox_code='' __nsbox_interrupted='' __nsbox_status=0
__nsbox_trace='' # of set -x and -v, as the code set them
__nsbox_folder=${__nsbox_driver%/*} __nsbox_file='' __nsbox_debugs='' __nsbox_searches=''
__nsbox_traps=('-' '-') # of EXIT and INT, as the code set them; -: none
: "${FUNCNEST:=4000}" # functions within functions: Bash has no bound of its own, and no stack for twice as many

# A descriptor that is copied from one that programs do not get is not for them either, and such is where Bash puts
# aside what a redirection takes the place of: the lowest free ones from 10 upwards.
__nsbox_fds=()
for ((__nsbox_fd = 10; ${#__nsbox_fds[@]} < 2; __nsbox_fd++)); do
	[[ -e /proc/$$/fd/$__nsbox_fd || -L /proc/$$/fd/$__nsbox_fd ]] || __nsbox_fds+=("$__nsbox_fd")
done
{ command exec 252<&"${__nsbox_fds[0]}" 253>&"${__nsbox_fds[1]}"; } <&- 3>&-
command exec </dev/null 3>&-
for __nsbox_fd in 252 253; do
	while builtin read -r __nsbox_name __nsbox_flags && [[ $__nsbox_name != flags: ]]; do
		:
	done <"/proc/$$/fdinfo/$__nsbox_fd"
	if ! ((__nsbox_flags & 02000000)); then
		builtin echo "$0: descriptor $__nsbox_fd would be open in the programs that the code starts" >&2
		builtin exit 1
	fi
done
builtin unset __nsbox_fd __nsbox_fds __nsbox_name __nsbox_flags

# What runs a cell: SIGINT has its trap only where there is something to return from.
__nsbox_source='__nsbox_leave || builtin :; builtin trap -- "$__nsbox_int" INT; command exec 254<&-; __nsbox_set_status; '
__nsbox_source+='builtin eval "$__nsbox_code"'

__nsbox_set_status() {
	[[ $- == *e* ]] || builtin return "$__nsbox_status"
}

# --- names ---

# Makes the file of a cell; that of the last one stays, empty. Nothing is written where that could end the shell.
__nsbox_make_file() {
	local IFS=$' \t\n' limit=() text=''
	{ builtin read -r && builtin read -r && builtin read -r -a limit; } <"/proc/$$/limits"
	[[ ${limit[3]-} == unlimited ]] || ((${limit[3]-0} > 4096)) || builtin return 1
	[[ ! -f $__nsbox_file || -L $__nsbox_file ]] || builtin printf '' >|"$__nsbox_file"
	__nsbox_file=''
	[[ ! -L $1 && (! -e $1 || -f $1) ]] && ((__nsbox_cell < 10000)) || builtin return 1
	builtin printf %s "$__nsbox_source" >|"$1" || builtin return 1
	__nsbox_file=$1
	IFS='' builtin read -r -d '' text <"$1"
	[[ $text == "$__nsbox_source" ]]
}

# Sets what the cell is sourced as, and goes there. A trap of DEBUG would notice.
__nsbox_enter() {
	local name="<cell $__nsbox_cell>"
	__nsbox_name=/dev/fd/254 __nsbox_pwd=${PWD-} __nsbox_old=("${OLDPWD[@]}") __nsbox_searches=''
	if [[ $__nsbox_debugs || ${OLDPWD+${OLDPWD@a}} == *r* || $__nsbox_pwd != /* || ! $__nsbox_pwd -ef . || ! -x $__nsbox_pwd ]] ||
		! __nsbox_make_file "$__nsbox_folder/$name"; then
		builtin return 0
	fi
	__nsbox_name=$name
	[[ :$SHELLOPTS: != *:posix:* ]] || __nsbox_name=./$name
	if [[ :$BASHOPTS: == *:sourcepath:* ]]; then
		__nsbox_searches=1
		builtin shopt -u sourcepath # a file of that name in PATH is another
	fi
	builtin cd -- "$__nsbox_folder" || {
		__nsbox_leave
		__nsbox_name=/dev/fd/254
	}
}

__nsbox_leave() {
	[[ $__nsbox_name != /dev/fd/254 ]] || builtin return 0
	[[ ! $__nsbox_searches ]] || builtin shopt -s sourcepath
	builtin cd -- "$__nsbox_pwd" || builtin :
	if ((${#__nsbox_old[@]})); then
		OLDPWD=${__nsbox_old[0]}
	else
		builtin unset -v OLDPWD
		builtin declare -gx OLDPWD
	fi
}

# --- interrupts ---

__nsbox_unwind='__nsbox_interrupt; if ((${#BASH_SOURCE[@]} > 1)); then builtin return 130; fi'

__nsbox_interrupt() {
	[[ ! $__nsbox_interrupted ]] || builtin return 0
	__nsbox_interrupted=1 __nsbox_flags=$-
	builtin set +eux
	__nsbox_debug=$(builtin trap -p DEBUG)
	if ((${#BASH_SOURCE[@]} > 2)); then
		builtin shopt -s extdebug
		builtin trap __nsbox_skip DEBUG
	fi
}

# Before each command: 2 has its function return instead.
__nsbox_skip() {
	if ((${#BASH_SOURCE[@]} > 2)); then
		builtin return 2
	fi
	builtin trap - DEBUG
	builtin shopt -u extdebug
}

# What was set before the interrupt.
__nsbox_restore() {
	builtin trap - DEBUG
	builtin shopt -u extdebug
	builtin eval "$__nsbox_debug"
	__nsbox_flags=${__nsbox_flags//[!euxET]/}
	[[ ! $__nsbox_flags ]] || builtin set -"$__nsbox_flags"
}

# --- replies ---

# HEADER [TEXT …]
__nsbox_reply() {
	local LC_ALL=C IFS=
	builtin printf '%s\n%s' "$1" "${*:2}" >&253
}

# LINE NAME MESSAGE TRACE
__nsbox_error() {
	local LC_ALL=C
	__nsbox_reply "error $__nsbox_cell $1 ${#2} ${#3} ${#4}" "$2" "$3" "$4"
}

# What is wrong with the form of the cell, if anything is: Bash says the same when it only reads.
__nsbox_syntax_error() {
	local said text='' line='' message=''
	while builtin read -r said; do
		[[ $said =~ ^.*': line '([0-9]+)': '(.*) ]] || builtin continue
		if [[ ! $line ]]; then
			line=$((BASH_REMATCH[1] - 1)) message=${BASH_REMATCH[2]#syntax error: }
		fi
		text+="<cell $__nsbox_cell>: line $((BASH_REMATCH[1] - 1)): ${BASH_REMATCH[2]}"$'\n'
	done < <(builtin source /dev/fd/254 254<<<"builtin set -n"$'\n'"$__nsbox_code" 2>&1)
	[[ $line ]] && __nsbox_error "$line" 'syntax error' "${message#syntax error }" "${text%$'\n'}"
}

# STATUS [COMMAND]: the cell is over, by the command if that is known.
__nsbox_over() {
	local name message=$1 command=${2-}
	if [[ $__nsbox_interrupted ]]; then
		__nsbox_reply "end $__nsbox_cell interrupted"
	elif (($1 == 0)); then
		__nsbox_reply "end $__nsbox_cell ok"
	else
		if (($1 > 128 && $1 < 193)) && name=$(builtin kill -l "$1" 2>/dev/null); then
			message+=" (SIG$name)"
		fi
		if [[ $command ]] || (($1 > 2)) || ! __nsbox_syntax_error; then
			[[ $command == *'$__nsbox_source"' ]] && command='' # what runs cells
			__nsbox_error 0 'exit status' "$message" "exit status: $message${command:+, of: $command}"
		fi
		__nsbox_reply "end $__nsbox_cell error"
	fi
	__nsbox_status=$1 __nsbox_cell='' __nsbox_interrupted=''
}

# --- cells ---

# Reads a cell, if that is one that can be run.
__nsbox_read() {
	local LC_ALL=C line length chunk nul=''
	__nsbox_code=''
	builtin read -r -u 252 line || builtin exit 0
	[[ $line =~ ^run\ ([0-9]+)\ ([0-9]+)$ ]] || builtin exit 1
	__nsbox_cell=${BASH_REMATCH[1]} length=${BASH_REMATCH[2]}
	# As far as a NUL, which Bash would else skip, uncounted, and read past the end of the cell.
	while ((length)); do
		IFS='' builtin read -r -d '' -n "$length" -u 252 chunk || builtin exit 1
		__nsbox_code+=$chunk
		((length -= ${#chunk}))
		if ((length)); then
			nul=1
			((length -= 1))
		fi
	done
	if [[ $nul ]]; then
		__nsbox_error 0 'NUL byte' 'the code has NUL bytes, which Bash cannot hold' ''
		__nsbox_reply "end $__nsbox_cell error"
		__nsbox_cell=''
		builtin return 1
	fi
}

# ARGUMENT …: the positional parameters.
__nsbox_next() {
	local IFS=$' \t\n'
	__nsbox_arguments=("$@")
	until __nsbox_read; do
		:
	done
	__nsbox_int=${__nsbox_traps[1]}
	[[ $__nsbox_int != - ]] || __nsbox_int=$__nsbox_unwind
	[[ ! $__nsbox_trace ]] || __nsbox_code="builtin set -$__nsbox_trace; $__nsbox_code"
}

# --- the end of the shell ---

# The state, as commands. No local variables, as they would be part of it.
__nsbox_state() {
	builtin declare -p IFS
	IFS=$' \t\n'
	builtin shopt -p
	for __nsbox_name in $(builtin compgen -v); do
		case $__nsbox_name in
		__nsbox_* | _ | BASH | BASHOPTS | BASHPID | BASH_* | COMP_WORDBREAKS | DIRSTACK | EPOCH* | EUID) ;;
		FUNCNAME | GROUPS | HISTCMD | IFS | LINENO | PIPESTATUS | POSIXLY_CORRECT | PPID) ;;
		RANDOM | SECONDS | SHELLOPTS | SRANDOM | UID) ;;
		*) builtin declare -p "$__nsbox_name" ;;
		esac
	done
	builtin echo "SECONDS=$SECONDS"
	builtin declare -f
	builtin declare -F | while builtin read -r __nsbox_name; do
		[[ $__nsbox_name == 'declare -f '* ]] || builtin echo "$__nsbox_name"
	done
	builtin alias -p
	builtin umask -p
	builtin set +o
	[[ ! ${POSIXLY_CORRECT+x} ]] || builtin declare -p POSIXLY_CORRECT
	builtin declare -p __nsbox_traps __nsbox_arguments __nsbox_cell __nsbox_interrupted __nsbox_trace __nsbox_file
	builtin echo "builtin set -- ${__nsbox_arguments[*]@Q}"
	for __nsbox_name in $(builtin compgen -A signal); do
		[[ $__nsbox_name == EXIT || $__nsbox_name == SIGINT ]] || builtin trap -p "$__nsbox_name"
	done
}

# STATUS COMMAND: what the shell is to end with, and what ran.
__nsbox_exit() {
	__nsbox_flags=$- __nsbox_status=$1
	builtin set +euxv
	builtin trap : INT # so that subshells have it as it was
	if [[ ${__nsbox_traps[0]} != - ]]; then
		(
			builtin eval "__nsbox_set_status; ${__nsbox_traps[0]}"
		)
	fi
	[[ $__nsbox_cell ]] || builtin exit "$1"
	builtin trap '' INT
	__nsbox_traps[0]=-
	[[ ${__nsbox_traps[1]} == - || $1 != 130 ]] || __nsbox_interrupted=1
	[[ $__nsbox_trace ]] || __nsbox_trace=${__nsbox_flags//[!xv]/}
	__nsbox_state=$(
		__nsbox_state
		builtin echo "__nsbox_over $1 ${2@Q}"
		[[ $__nsbox_flags != *u* ]] || builtin echo "builtin set -u"
		[[ $__nsbox_flags != *e* ]] || builtin echo "builtin set -e"
	) 2>/dev/null
	builtin trap : INT # what is ignored here could not be trapped there
	BASH_ENV='' command exec "$BASH" "$__nsbox_driver" resume 0<&252 3>/proc/$$/fd/253 254<<<"$__nsbox_state"
}

# --- trap ---

# NAME: the command that sets what is set for EXIT or SIGINT.
__nsbox_print_trap() {
	local text
	text=$(builtin trap -p "$1")
	case $text in
	*__nsbox_exit*) text=${__nsbox_traps[0]} ;;
	*__nsbox_interrupt*) text=- ;;
	*)
		[[ ! $text ]] || builtin echo "$text"
		builtin return 0
		;;
	esac
	[[ $text == - ]] || builtin echo "trap -- '${text//\'/\'\\\'\'}' $1"
}

# As the builtin is, but for EXIT and INT, and for RETURN it leaves out the one from here.
trap() {
	local IFS=$' \t\n' action=- name names debug='' status=0
	if (($# == 0)) || [[ $1 == -p ]]; then
		names=("${@:2}")
		if ((${#names[@]} == 0)); then
			names=($(builtin compgen -A signal))
		fi
		for name in "${names[@]}"; do
			case ${name^^} in
			EXIT | 0) __nsbox_print_trap EXIT ;;
			INT | SIGINT | 2) __nsbox_print_trap SIGINT ;;
			*) builtin trap -p "$name" || status=$? ;;
			esac
		done
		builtin return "$status"
	fi
	if [[ $1 == -l || $# -eq 1 && $1 == - ]]; then
		builtin trap "$@"
		builtin return
	fi
	[[ $1 != -- ]] || builtin shift
	if (($# > 1)) && [[ $1 != +([0-9]) ]]; then
		action=$1
		builtin shift
	fi
	for name; do
		case ${name^^}:$BASH_SUBSHELL in
		EXIT:0 | 0:0) __nsbox_traps[0]=$action ;;
		INT:0 | SIGINT:0 | 2:0)
			__nsbox_traps[1]=$action
			[[ $action == - ]] && builtin trap -- "$__nsbox_unwind" INT || builtin trap -- "$action" INT
			;;
		DEBUG:*) debug=1 ;;
		RETURN:*)
			if [[ $action == - || ! $action ]]; then
				builtin trap -- "$action" RETURN
			else
				builtin trap -- "[[ \${FUNCNAME[0]-} == trap ]] || {"$'\n'"$action"$'\n}' RETURN
			fi
			;;
		*) builtin trap -- "$action" "$name" || status=$? ;;
		esac
	done
	if [[ $debug ]]; then
		__nsbox_debugs=${action#-}
		builtin trap -- "$action" DEBUG
	else
		builtin return "$status"
	fi
}

# --- the loop ---

builtin trap '__nsbox_exit "$?" "$BASH_COMMAND"' EXIT
BASH_ARGV0=bash
if [[ ${1-} == resume ]]; then
	builtin shift
	builtin source /dev/fd/254
	command exec 254<&-
else
	[[ ! $__nsbox_posix ]] || builtin export POSIXLY_CORRECT="$__nsbox_posix"
	__nsbox_reply ready
fi
for ((;;)); do
	{
		builtin set +xv
		__nsbox_next "$@" || builtin :
		__nsbox_enter || builtin :
	} >/dev/null 2>&1
	builtin source "$__nsbox_name" 254<<<"$__nsbox_source"
	{
		__nsbox_status=$?
		builtin trap '' INT
		[[ ! $__nsbox_interrupted ]] || __nsbox_restore
		__nsbox_trace=${-//[!xv]/}
		builtin set +xv
		__nsbox_over "$__nsbox_status"
	} >/dev/null 2>&1
done
