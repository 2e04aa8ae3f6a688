<?php
// Long enough for every agent to have a request at once.
usleep(300000);
echo getmypid();
