// Package deploy holds what a team puts beside its Prometheus and Grafana: alert rules and a dashboard. Its
// tests are a module of their own, because they judge the rules with Prometheus' own library.
package deploy
