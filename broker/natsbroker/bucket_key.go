package natsbroker

import (
	"strconv"
	"strings"
)

// token is a name as one token of a subject: a dot parts tokens, and no name has an equals sign.
func token(name string) string { return strings.ReplaceAll(name, ".", "=") }

// ownerKey is where the owner of a group lies.
func ownerKey(group string) string { return "owner." + token(group) }

// memberKey is where the presence of a member lies; of the member "" it is what those of all begin with.
func memberKey(group, member string) string { return "member." + token(group) + "." + member }

// partitionKey is where the row of a partition lies.
func partitionKey(group, stream string, partition int) string {
	return "partition." + token(group) + "." + stream + "." + strconv.Itoa(partition)
}

// partitionsOf is the filter for the rows of a group.
func partitionsOf(group string) string { return "partition." + token(group) + ".>" }

// topicOf is the topic of a row, by its key.
func topicOf(key string) string { return strings.ReplaceAll(strings.Split(key, ".")[2], "=", ".") }
