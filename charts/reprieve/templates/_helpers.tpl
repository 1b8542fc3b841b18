{{/* The labels of every object, as deploy/kustomization.yaml has them. */}}
{{- define "reprieve.labels" -}}
app.kubernetes.io/name: reprieve-scheduler
app.kubernetes.io/part-of: reprieve
{{- end }}

{{/* The labels that select the scheduler's Pods. */}}
{{- define "reprieve.selector" -}}
app.kubernetes.io/name: reprieve-scheduler
{{- end }}

{{- define "reprieve.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/*
One object of files/, which are copies of deploy/ by `make generate`, with the labels of the chart. The
release's namespace replaces reprieve-system everywhere, in the user names of policies too.
Takes root, object, rules: further rules of a role, and resourceRules: those of a policy.
*/}}
{{- define "reprieve.object" -}}
{{- $labels := include "reprieve.labels" .root | fromYaml -}}
{{- $_ := set .object.metadata "labels" (merge ((get .object.metadata "labels") | default dict) $labels) -}}
{{- with get . "rules" }}{{ $_ := set $.object "rules" (concat $.object.rules .) }}{{ end -}}
{{- with get . "resourceRules" }}{{ $_ := set $.object.spec.matchConstraints "resourceRules" (concat $.object.spec.matchConstraints.resourceRules .) }}{{ end -}}
{{- toYaml .object | replace "reprieve-system" .root.Release.Namespace }}
{{ end }}

{{/* All objects of one file. Takes root and file. */}}
{{- define "reprieve.objects" -}}
{{- $root := .root -}}
{{- range splitList "\n---\n" (.root.Files.Get .file) }}
---
{{ include "reprieve.object" (dict "root" $root "object" (fromYaml .)) }}
{{- end }}
{{- end }}

{{/*
Refuses arguments that the chart sets, that have no effect beside --config, or that would disable
leader election.
*/}}
{{- define "reprieve.checkArguments" -}}
{{- $election := "the chart configures leader election; two Pods that both lead would both preempt" -}}
{{- $configured := "it has no effect beside --config; set it in the value configuration" -}}
{{- $refused := dict
  "config" "the chart sets it; see the values profiles and configuration"
  "secure-port" "the chart sets it"
  "v" "the chart sets it; see the value logLevel"
  "leader-elect" $election "leader-elect-resource-lock" $election "leader-elect-resource-name" $election "leader-elect-resource-namespace" $election
  "kubeconfig" "the scheduler uses its ServiceAccount"
  "scheduler-name" "it renames no profile; see the value profiles"
  "kube-api-qps" $configured "kube-api-burst" $configured "kube-api-content-type" $configured
  "profiling" $configured "contention-profiling" $configured -}}
{{- range .Values.extraArgs -}}
{{- $flag := regexReplaceAll "=.*$" . "" | trimPrefix "--" | replace "_" "-" -}}
{{- if hasKey $refused $flag -}}
{{- fail (printf "extraArgs: --%s: %s" $flag (get $refused $flag)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The KubeSchedulerConfiguration. */}}
{{- define "reprieve.configuration" -}}
{{- range list "apiVersion" "kind" "profiles" -}}
{{- if hasKey $.Values.configuration . -}}
{{- fail (printf "configuration.%s: the chart sets it; profiles are set by the value profiles" .) -}}
{{- end -}}
{{- end -}}
{{- range list "leaderElect" "resourceNamespace" "resourceName" -}}
{{- if hasKey (get $.Values.configuration "leaderElection" | default dict) . -}}
{{- fail (printf "configuration.leaderElection.%s: the chart sets it, because the scheduler may use only that Lease; leave it out" .) -}}
{{- end -}}
{{- end -}}
{{- $profiles := list -}}
{{- range .Values.profiles -}}
{{- $plugins := dict
  "multiPoint" (dict "enabled" (list (dict "name" "Reprieve")) "disabled" (list (dict "name" "DefaultPreemption")))
  "queueSort" (dict "enabled" (list (dict "name" "ReprievePrioritySort")) "disabled" (list (dict "name" "PrioritySort")))
  "preFilter" (dict "enabled" (list (dict "name" "Reprieve"))) -}}
{{- range $point, $set := (get . "plugins" | default dict) -}}
{{- if hasKey $plugins $point -}}
{{- fail (printf "profiles: the chart sets plugins.%s, and Reprieve needs that value; name the plugin under another extension point" $point) -}}
{{- end -}}
{{- $_ := set $plugins $point $set -}}
{{- end -}}
{{- $profile := dict "schedulerName" .schedulerName "plugins" $plugins -}}
{{- $config := list -}}
{{- with get . "args" }}{{ $config = append $config (dict "name" "Reprieve" "args" .) }}{{ end -}}
{{- $config = concat $config ((get . "pluginConfig") | default list) -}}
{{- if $config }}{{ $_ := set $profile "pluginConfig" $config }}{{ end -}}
{{- $profiles = append $profiles $profile -}}
{{- end -}}
{{- $election := dict "leaderElect" true "resourceNamespace" .Release.Namespace "resourceName" "reprieve-scheduler" -}}
{{- toYaml (merge (dict
  "apiVersion" "kubescheduler.config.k8s.io/v1"
  "kind" "KubeSchedulerConfiguration"
  "leaderElection" $election
  "profiles" $profiles) (deepCopy .Values.configuration)) }}
{{- end }}
