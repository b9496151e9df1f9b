<?php
echo "never printed\n";
$x = ;
