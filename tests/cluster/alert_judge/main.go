// Command alert_judge says which alerts of a rule file fire on what a process told at /metrics.
//
// It reads {"rules": "<file>", "scrapes": [{"at": 0, "text": "..."}]} from stdin, times in seconds, and answers with a
// map from the name of each rule to the labels of its alerts at the last scrape. The expressions are evaluated by
// Prometheus' own engine over its own storage, once a scrape; an alert fires when its expression held for as long as
// the rule says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

type question struct {
	Rules   string `json:"rules"`
	Scrapes []struct {
		At   int64  `json:"at"`
		Text string `json:"text"`
	} `json:"scrapes"`
}

func load(db *tsdb.DB, at int64, text string) error {
	table := labels.NewSymbolTable()
	p, err := textparse.New([]byte(text), "text/plain; version=0.0.4", table, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	app := db.Appender(context.Background())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return app.Commit()
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := p.Series()
		var found labels.Labels
		p.Labels(&found)
		if _, err := app.Append(0, found, at*1000, value); err != nil {
			return err
		}
	}
}

func run() error {
	var q question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		return err
	}
	groups, problems := rulefmt.Parse([]byte(q.Rules), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	folder, err := os.MkdirTemp("", "alert-judge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	db, err := tsdb.Open(folder, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	since := map[string]map[string]int64{}
	firing := map[string][]map[string]string{}
	for _, scrape := range q.Scrapes {
		if err := load(db, scrape.At, scrape.Text); err != nil {
			return err
		}
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				query, err := engine.NewInstantQuery(context.Background(), db, nil, rule.Expr, time.Unix(scrape.At, 0))
				if err != nil {
					return err
				}
				result := query.Exec(context.Background())
				if result.Err != nil {
					return result.Err
				}
				vector, err := result.Vector()
				if err != nil {
					return err
				}
				held := map[string]int64{}
				firing[rule.Alert] = []map[string]string{}
				for _, sample := range vector {
					key := sample.Metric.String()
					begin, known := since[rule.Alert][key]
					if !known {
						begin = scrape.At
					}
					held[key] = begin
					if time.Duration(scrape.At-begin)*time.Second >= time.Duration(rule.For) {
						firing[rule.Alert] = append(firing[rule.Alert], sample.Metric.Map())
					}
				}
				since[rule.Alert] = held
				query.Close()
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(firing)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
