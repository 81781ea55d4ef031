"""How well a score tells outside from inside, wrong from right and uncertain from certain: functions of sorted rows."""
