depth() { (($1 == 0)) && echo bottom || depth $(($1 - 1)); }
depth 2000
