// Command pod_security_judge says what Kubernetes' own checks of the Pod Security Standards find in Pods.
//
// It reads JSON objects {"minor": 30, "pod": {...}} from stdin and answers each with one line: a map from the ids of
// the checks that the Pod breaks to their reasons. Of each check the newest revision counts that is not newer.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

type question struct {
	Minor int        `json:"minor"`
	Pod   corev1.Pod `json:"pod"`
}

func judge(q question) map[string]string {
	version := api.MajorMinorVersion(1, q.Minor)
	broken := map[string]string{}
	for _, check := range policy.DefaultChecks() {
		var newest *policy.VersionedCheck
		for i := range check.Versions {
			if !version.Older(check.Versions[i].MinimumVersion) {
				newest = &check.Versions[i]
			}
		}
		if newest == nil {
			continue
		}
		if result := newest.CheckPod(&q.Pod.ObjectMeta, &q.Pod.Spec); !result.Allowed {
			broken[string(check.ID)] = result.ForbiddenReason
		}
	}
	return broken
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		line, err := json.Marshal(judge(q))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(out, string(line))
	}
}
