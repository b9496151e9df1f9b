set -euo pipefail
echo before
echo "$UNDEFINED_VARIABLE"
echo after
