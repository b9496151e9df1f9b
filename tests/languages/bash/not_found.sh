no-such-command-anywhere; echo "status $?"
/; echo "status $?"
exit 42
