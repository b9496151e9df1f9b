<?php
$s = 'Straße 日本';
echo strlen($s), ' ', preg_match_all('/./u', $s), ' ', json_encode($s), "\n";
foreach (['Europe/Berlin', 'Asia/Kolkata'] as $zone)
    echo (new DateTimeImmutable('@1730000000'))->setTimezone(new DateTimeZone($zone))->format(DATE_ATOM), "\n";
echo (new DateTime('2024-02-28'))->modify('+2 days')->format('Y-m-d'), "\n";
