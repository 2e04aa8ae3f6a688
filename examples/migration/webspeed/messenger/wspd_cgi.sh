#!/bin/sh
# The script that the WebSpeed installation puts into the cgi-bin folder: it starts the messenger.
DLC=${DLC:-/usr/dlc}; export DLC
PROMSGS=${PROMSGS:-$DLC/promsgs}; export PROMSGS
WRKDIR=${WRKDIR:-/usr/wrk}; export WRKDIR
exec "$DLC/bin/cgiip" -i wsbroker1
