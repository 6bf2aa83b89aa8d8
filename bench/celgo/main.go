// Times CEL expressions on cel-go, in the environment that the API server gives admission policies.
//
// It reads one JSON line a case, {"expression": …, "object": …, "oldObject": …, "seconds": 0.2}, and answers each with
// one line, {"value": "true", "error": "", "nanoseconds": 1234.5}: the median of the means of five rounds of a compiled
// program, in processor time of the thread as on the other side, the object decoded beforehand as it is there. What
// other threads collect of its garbage costs it nothing here.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

const rounds = 5

type question struct {
	Expression string          `json:"expression"`
	Object     json.RawMessage `json:"object"`
	OldObject  json.RawMessage `json:"oldObject"`
	Seconds    float64         `json:"seconds"`
}

type answer struct {
	Value       string  `json:"value"`
	Error       string  `json:"error"`
	Nanoseconds float64 `json:"nanoseconds"`
}

func main() {
	// The clock is the thread's: it must not change below a round.
	runtime.LockOSThread()
	env, err := policyEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no environment:", err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		if err := out.Encode(ask(env, in.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, "cannot answer:", err)
			os.Exit(1)
		}
	}
}

func policyEnvironment() (*cel.Env, error) {
	base, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType),
			cel.Variable("oldObject", cel.DynType),
		},
	})
	if err != nil {
		return nil, err
	}
	return base.NewExpressionsEnv(), nil
}

func ask(env *cel.Env, line []byte) answer {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{Error: err.Error()}
	}
	tree, issues := env.Compile(q.Expression)
	if issues.Err() != nil {
		return answer{Error: issues.Err().Error()}
	}
	program, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(100))
	if err != nil {
		return answer{Error: err.Error()}
	}
	variables := map[string]any{"object": decode(q.Object), "oldObject": decode(q.OldObject)}
	value, _, err := program.Eval(variables)
	if err != nil {
		return answer{Error: err.Error(), Nanoseconds: clock(program, variables, q.Seconds)}
	}
	return answer{Value: fmt.Sprint(value.Value()), Nanoseconds: clock(program, variables, q.Seconds)}
}

// clock is the median over the rounds of the mean time of one evaluation, in nanoseconds.
func clock(program cel.Program, variables map[string]any, seconds float64) float64 {
	n := 1
	for {
		if float64(run(program, variables, n)) >= seconds/rounds*1e9 {
			break
		}
		n *= 2
	}
	means := make([]float64, rounds)
	for round := range means {
		means[round] = float64(run(program, variables, n)) / float64(n)
	}
	sort.Float64s(means)
	return means[rounds/2]
}

// run is the nanoseconds of processor time of n evaluations.
func run(program cel.Program, variables map[string]any, n int) int64 {
	start := spent()
	for i := 0; i < n; i++ {
		_, _, _ = program.Eval(variables)
	}
	return spent() - start
}

func spent() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		fmt.Fprintln(os.Stderr, "no clock of the thread:", err)
		os.Exit(1)
	}
	return now.Nano()
}

// decode reads JSON as the API server holds objects: whole numbers are int64, all others float64.
func decode(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil
	}
	return numbers(v)
}

func numbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = numbers(e)
		}
	case []any:
		for i, e := range x {
			x[i] = numbers(e)
		}
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, _ := x.Float64()
		return f
	}
	return v
}
