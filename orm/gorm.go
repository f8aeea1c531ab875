package orm

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"
)

// PlaceWithGORM places orders in one transaction of GORM, and says so.
func PlaceWithGORM(ctx context.Context, db *gorm.DB, out Outbox, orders ...Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, o := range orders {
			if err := tx.Create(&o).Error; err != nil {
				return err
			}
			under, err := underGORM(tx)
			if err != nil {
				return err
			}
			if err := out.Write(ctx, under, OrderPlaced.New(o.ID, o)); err != nil {
				return err
			}
		}
		return nil
	})
}

// underGORM is the transaction of database/sql that GORM is in.
func underGORM(tx *gorm.DB) (*sql.Tx, error) {
	pool := tx.Statement.ConnPool
	if prepared, ok := pool.(*gorm.PreparedStmtTX); ok { // gorm.Config.PrepareStmt
		pool = prepared.Tx
	}
	if under, ok := pool.(*sql.Tx); ok {
		return under, nil
	}
	return nil, fmt.Errorf("GORM is in no transaction of database/sql, but in %T", pool)
}
