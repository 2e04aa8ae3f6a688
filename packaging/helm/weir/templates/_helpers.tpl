{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* 40 characters: pods, Services and controller revisions append to the name. */}}
{{- define "weir.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "weir.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Milliseconds of a duration of weir: 15s, 1m30s, 500ms. */}}
{{- define "weir.milliseconds" -}}
{{- $text := toString . }}
{{- if not (regexMatch "^([0-9]+(ms|s|m|h|d))+$" $text) }}
{{- fail (printf "config.drain: %q is not a duration such as 30s or 1m30s" $text) }}
{{- end }}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 }}
{{- $sum := 0 }}
{{- range regexFindAll "[0-9]+(ms|s|m|h|d)" $text -1 }}
{{- $sum = add $sum (mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[a-z]+$" .))) }}
{{- end }}
{{- $sum }}
{{- end }}

{{/* MiB of a size of weir (8GiB) or a quantity of Kubernetes (16Gi), rounded down; empty if it is neither. */}}
{{- define "weir.mebibytes" -}}
{{- $text := toString . }}
{{- $units := dict "" 1 "K" 1000 "Ki" 1024 "M" 1000000 "Mi" 1048576 }}
{{- $units = merge $units (dict "G" 1000000000 "Gi" 1073741824 "T" 1000000000000 "Ti" 1099511627776) }}
{{- $unit := regexFind "[A-Za-z]*$" $text | trimSuffix "B" | replace "k" "K" }}
{{- if and (regexMatch "^[0-9]+([.][0-9]+)?[A-Za-z]*$" $text) (hasKey $units $unit) }}
{{- divf (mulf (regexFind "^[0-9.]+" $text | float64) (get $units $unit)) 1048576 | floor | int64 }}
{{- end }}
{{- end }}

{{/*
The time that Kubernetes waits before it kills: longer than weir drains, then sends its last telemetry (5 s) and closes
its files.
*/}}
{{- define "weir.gracePeriod" -}}
{{- $drain := default dict .Values.config.drain }}
{{- $delay := include "weir.milliseconds" (default "0s" $drain.delay) | int64 }}
{{- $deadline := include "weir.milliseconds" (default "30s" $drain.deadline) | int64 }}
{{- $drained := div (add $delay $deadline 999) 1000 }}
{{- $given := .Values.terminationGracePeriodSeconds }}
{{- if kindIs "invalid" $given }}
{{- add $drained 15 }}
{{- else if lt (int64 $given) (add $drained 5) }}
{{- fail (printf "terminationGracePeriodSeconds: %d s end a drain before it is complete: drain.delay + drain.deadline are %d s, and 5 s are needed to send telemetry and close files" (int64 $given) $drained) }}
{{- else }}
{{- int64 $given }}
{{- end }}
{{- end }}

{{/* weir.yaml as a mapping, in JSON. */}}
{{- define "weir.config" -}}
{{- $config := deepCopy .Values.config }}
{{- range list "listen" "admin" "data" }}
{{- if hasKey $config . }}
{{- fail (printf "config.%s: the chart writes this key, because Services and probes depend on it; set %s" . (get (dict "listen" "listeners" "admin" "admin" "data" "persistence") .)) }}
{{- end }}
{{- end }}
{{- $listen := list }}
{{- range $name, $listener := .Values.listeners }}
{{- if $listener }}
{{- $one := deepCopy (default dict $listener.settings) }}
{{- $_ := set $one "addr" (printf "%s:%d" $.Values.listenAddress (int $listener.port)) }}
{{- if $listener.certificates }}
{{- $tls := list }}
{{- range $listener.certificates }}
{{- $tls = append $tls (include "weir.certificate" . | fromJson) }}
{{- end }}
{{- $_ := set $one "tls" $tls }}
{{- end }}
{{- $listen = append $listen $one }}
{{- end }}
{{- end }}
{{- if not $listen }}
{{- fail "listeners: at least one is needed" }}
{{- end }}
{{- $_ := set $config "listen" $listen }}
{{- $service := printf "%s-admin" (include "weir.fullname" .) }}
{{- $namespace := .Release.Namespace }}
{{- $hosts := list $service (printf "%s.%s" $service $namespace) (printf "%s.%s.svc" $service $namespace) (printf "%s.%s.svc.%s" $service $namespace .Values.clusterDomain) }}
{{- $admin := dict "addr" (printf "%s:%d" .Values.listenAddress (int .Values.admin.port)) "hosts" (concat $hosts .Values.admin.hosts | uniq) }}
{{- if .Values.admin.tls.enabled }}
{{- if .Values.admin.tls.certificate }}
{{- $_ := set $admin "tls" (include "weir.certificate" .Values.admin.tls.certificate | fromJson) }}
{{- else }}
{{- $_ := set $admin "tls" "self-signed" }}
{{- end }}
{{- end }}
{{- $_ := set $config "admin" $admin }}
{{- $_ := set $config "data" "/var/lib/weir/data" }}
{{- if not (or $config.apis $config.include) }}
{{- $route := dict "get" "/" "reply" (dict "text" "weir serves. Set config.apis in the values of the chart.\n") }}
{{- $_ := set $config "apis" (dict "welcome" (dict "base" "/" "routes" (list $route))) }}
{{- end }}
{{- $journal := include "weir.mebibytes" (default "10GiB" (default dict $config.journal).disk) }}
{{- $volume := include "weir.mebibytes" .Values.persistence.size }}
{{- if and $journal $volume }}
{{- if ge (int64 $journal) (int64 $volume) }}
{{- fail (printf "config.journal.disk: the journal (%s MiB) does not fit in persistence.size (%s MiB); the index and the database need space, too" $journal $volume) }}
{{- end }}
{{- end }}
{{- toJson $config }}
{{- end }}

{{- define "weir.certificate" -}}
{{- dict "cert" (printf "file:/run/secrets/tls/%s/tls.crt" .) "key" (printf "file:/run/secrets/tls/%s/tls.key" .) | toJson }}
{{- end }}

{{/* The names of the Secrets with certificates, each once, in JSON. */}}
{{- define "weir.certificates" -}}
{{- $names := list }}
{{- range .Values.listeners }}
{{- if . }}
{{- $names = concat $names (default list .certificates) }}
{{- end }}
{{- end }}
{{- if and .Values.admin.tls.enabled .Values.admin.tls.certificate }}
{{- $names = append $names .Values.admin.tls.certificate }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{/*
What a hot reload cannot apply (finding `needs-restart`): the pods restart if the hash changes, and only then. The
environment is read at the start as well.
*/}}
{{- define "weir.restart" -}}
{{- $config := include "weir.config" . | fromJson }}
{{- $sockets := list }}
{{- range $config.listen }}
{{- $sockets = append $sockets (list .addr (hasKey . "tls") (hasKey . "proxy_protocol")) }}
{{- end }}
{{- $journal := pick (default dict $config.journal) "disk" "durability" }}
{{- $tracker := pick (default dict $config.tracker) "enabled" "index" "keep" "keys" }}
{{- /* weir meters calls if a rule, or a plan with a quota or price, counts them. */}}
{{- $monitor := default dict $config.monitor }}
{{- $metering := list $monitor.enabled (not (empty $monitor.count)) }}
{{- range $name, $plan := default dict $config.plans }}
{{- if or (hasKey $plan "quota") (hasKey $plan "price") }}
{{- $metering = list $monitor.enabled true }}
{{- end }}
{{- end }}
{{- $variables := dict }}
{{- range $name, $variable := .Values.secrets.env }}
{{- if $variable }}
{{- $_ := set $variables $name (default "" $variable.value) }}
{{- end }}
{{- end }}
{{- /* A new password of the database is used for the next connection. */}}
{{- $fleet := default dict $config.fleet }}
{{- $postgres := default dict $fleet.postgres }}
{{- $member := list (omit $fleet "postgres") $postgres.url (default false $postgres.plain) }}
{{- list $sockets $config.admin $config.workers $journal $tracker $metering $member $variables | toJson | sha256sum }}
{{- end }}

{{/* The environment, with created Secrets named `base`-env. */}}
{{- define "weir.environment" -}}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - name: NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  {{- with .root.Values.admin }}
  {{- if and .tls.enabled .tls.certificate }}
  # Commands in the pod connect to a name that the certificate can have; by default it is an address.
  - name: WEIR_ADMIN
    value: https://localhost:{{ .port }}
  {{- end }}
  {{- end }}
  {{- range $variable, $from := .root.Values.secrets.env }}
  {{- if $from }}
  - name: {{ $variable | quote }}
    valueFrom:
      secretKeyRef:
        name: {{ default (printf "%s-env" $.base) $from.secretName }}
        key: {{ default $variable $from.key | quote }}
  {{- end }}
  {{- end }}
  {{- with .root.Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Folders, not single files: Kubernetes does not update files that are mounted by subPath. */}}
{{- define "weir.mounts" -}}
- {name: config, mountPath: /etc/weir, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if include "weir.certificates" . | fromJsonArray }}
- {name: tls, mountPath: /run/secrets/tls, readOnly: true}
{{- end }}
{{- range $secret, $from := .Values.secrets.files }}
{{- if $from }}
- {name: secret-{{ $secret }}, mountPath: /run/secrets/weir/{{ $secret }}, readOnly: true}
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* All volumes but `data`; the ConfigMap is `base`, created Secrets are `base`-NAME. */}}
{{- define "weir.volumes" -}}
- name: config
  configMap:
    name: {{ .base }}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- with include "weir.certificates" .root | fromJsonArray }}
- name: tls
  projected:
    defaultMode: 0440
    sources:
      {{- range . }}
      - secret:
          name: {{ . }}
          items:
            - {key: tls.crt, path: {{ . }}/tls.crt}
            - {key: tls.key, path: {{ . }}/tls.key}
      {{- end }}
      {{- with $.root.Values.admin.tls }}
      {{- if and .enabled .certificate }}
      # For commands in the pod.
      - secret:
          name: {{ .certificate }}
          optional: true
          items:
            - {key: ca.crt, path: {{ .certificate }}/ca.crt}
      {{- end }}
      {{- end }}
{{- end }}
{{- range $secret, $from := .root.Values.secrets.files }}
{{- if $from }}
- name: secret-{{ $secret }}
  secret:
    secretName: {{ default (printf "%s-%s" $.base $secret) $from.secretName }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The ConfigMap `base`. */}}
{{- define "weir.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .base }}
  labels:
    {{- include "weir.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  weir.yaml: |
    {{- include "weir.config" .root | fromJson | toYaml | nindent 4 }}
  {{- range $name, $content := .root.Values.files }}
  {{ $name | quote }}: {{ $content | toJson }}
  {{- end }}
{{- end }}

{{/* The created Secrets `base`-env and `base`-NAME. */}}
{{- define "weir.secrets" -}}
{{- $created := dict }}
{{- $variables := dict }}
{{- range $name, $variable := .root.Values.secrets.env }}
{{- if and $variable (hasKey $variable "value") }}
{{- $_ := set $variables $name $variable.value }}
{{- end }}
{{- end }}
{{- if $variables }}
{{- $_ := set $created "env" $variables }}
{{- end }}
{{- range $name, $secret := .root.Values.secrets.files }}
{{- if and $secret $secret.data }}
{{- $_ := set $created $name $secret.data }}
{{- end }}
{{- end }}
{{- range $name, $data := $created }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ $.base }}-{{ $name }}
  labels:
    {{- include "weir.labels" $.root | nindent 4 }}
  {{- with $.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
type: Opaque
stringData:
  {{- range $key, $value := $data }}
  {{ $key | quote }}: {{ $value | toJson }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Labels of the pods of the Lab. Not those of the pods that serve: Services must not select them. */}}
{{- define "weir.labAgentLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" . | trunc 53 }}-lab-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labRunLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" . | trunc 53 }}-lab-run
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What the pods of the Lab have in common. */}}
{{- define "weir.labPod" -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.lab.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.lab.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.lab.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "weir.labContainer" -}}
image: {{ include "weir.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [/usr/bin/weir]
workingDir: /tmp
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end }}

{{- define "weir.labKey" -}}
- name: key
  secret:
    secretName: {{ .Values.lab.secretName }}
    items: [{key: key, path: key}]
    defaultMode: 0440
{{- end }}
