{{- define "thesmos.labels" -}}
app: {{ .Values.name }}
app.kubernetes.io/part-of: {{ .Values.name }}
{{- end }}

{{- define "thesmos.checks" -}}
{{- if and .Values.shadow (eq .Values.name "kyverno") }}
{{- fail "shadow: true needs another name than kyverno, which is the one in charge" }}
{{- end }}
{{- if and .Values.shadow .Values.separate }}
{{- fail "shadow and separate exclude each other: in the shadow there are no controllers" }}
{{- end }}
{{- if not (has .Values.size (list "small" "large")) }}
{{- fail (printf "size is small or large, not %s" .Values.size) }}
{{- end }}
{{- if and .Values.bundle.publicKeys (not .Values.bundle.sources) }}
{{- fail "bundle.publicKeys without bundle.sources" }}
{{- end }}
{{- if and .Values.bundle.sources (not .Values.bundle.publicKeys) (not (has "--unsigned-bundles" .Values.extraArgs)) }}
{{- fail "bundle.sources needs bundle.publicKeys" }}
{{- end }}
{{- end }}

{{- define "thesmos.controllers" -}}
{{- $found := list }}
{{- range $part := list "background" "reports" "cleanup" }}
{{- if (index $.Values $part).enabled }}{{ $found = append $found $part }}{{ end }}
{{- end }}
{{- $found | join "," }}
{{- end }}

{{- define "thesmos.resources" -}}
{{- if .own }}
{{- toYaml .own }}
{{- else if eq .size "large" }}
requests:
  cpu: 200m
  memory: 512Mi
limits:
  cpu: 1000m
  memory: 1Gi
{{- else }}
requests:
  cpu: 100m
  memory: 256Mi
limits:
  cpu: 500m
  memory: 512Mi
{{- end }}
{{- end }}

{{- /* A Deployment. Takes root, name, app (label), account, part (key of the values), args (first flags). */ -}}
{{- define "thesmos.deployment" -}}
{{- $root := .root }}
{{- $values := $root.Values }}
{{- $part := index $values .part }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .app }}
    app.kubernetes.io/part-of: {{ $values.name }}
spec:
  replicas: {{ $part.replicas }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      app: {{ .app }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      labels:
        app: {{ .app }}
        app.kubernetes.io/part-of: {{ $values.name }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      terminationGracePeriodSeconds: 45
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    app: {{ .app }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ .name }}
          image: {{ $values.image.repository }}:{{ $values.image.tag | default $root.Chart.AppVersion }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          {{- if ne .part "admission" }}
          command: [thesmos, controller]
          {{- end }}
          args:
            - --in-cluster
            {{- if ne $values.name "kyverno" }}
            - --name={{ $values.name }}
            {{- end }}
            - --webhookServerPort=9443
            - --metricsPort=8000
            - --loggingFormat=json
            - --bundle-cache=/var/cache/thesmos
            - --v=2
            {{- range .args }}
            - {{ . }}
            {{- end }}
            {{- range $values.bundle.sources }}
            - --bundle-source={{ . }}
            {{- end }}
            {{- range $n, $_ := $values.bundle.publicKeys }}
            - --key=/etc/thesmos/keys/{{ $n }}.pem
            {{- end }}
            {{- range concat $values.extraArgs $part.extraArgs }}
            - {{ . }}
            {{- end }}
          env:
            - name: KYVERNO_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: KYVERNO_POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: KYVERNO_SERVICEACCOUNT_NAME
              value: {{ .account }}
            - name: KYVERNO_DEPLOYMENT
              value: {{ .name }}
            - name: KYVERNO_SVC
              value: {{ $values.name }}-svc
            - name: INIT_CONFIG
              value: {{ $values.name }}
            - name: METRICS_CONFIG
              value: {{ $values.name }}-metrics
            - name: XDG_CACHE_HOME
              value: /var/cache/thesmos
          ports:
            - name: https
              containerPort: 9443
            - name: metrics
              containerPort: 8000
          startupProbe:
            httpGet:
              path: /health/liveness
              port: https
              scheme: HTTPS
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet:
              path: /health/liveness
              port: https
              scheme: HTTPS
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet:
              path: /health/readiness
              port: https
              scheme: HTTPS
            periodSeconds: 2
            timeoutSeconds: 5
          resources:
            {{- include "thesmos.resources" (dict "own" $part.resources "size" $values.size) | trim | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            - name: cache
              mountPath: /var/cache/thesmos
            {{- if $values.bundle.publicKeys }}
            - name: keys
              mountPath: /etc/thesmos/keys
              readOnly: true
            {{- end }}
            {{- with $values.bundle.volumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 16Mi
        - name: cache
          emptyDir:
            sizeLimit: 256Mi
        {{- if $values.bundle.publicKeys }}
        - name: keys
          configMap:
            name: {{ $values.name }}-bundle-keys
        {{- end }}
        {{- with $values.bundle.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
