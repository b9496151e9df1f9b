echo first
if true; then
  echo second
